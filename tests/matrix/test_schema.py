"""The shape of a matrix as data for editors."""

from __future__ import annotations

from sistership.matrix.schema import MatrixFile


def test_a_json_schema_can_be_made():
    """Every key has a description, extensions are allowed, and a scalar arch list is legal."""
    schema = MatrixFile.model_json_schema()
    rows = {"MatrixFile": schema, **schema["$defs"]}
    for name, row in rows.items():
        assert row["additionalProperties"] is False, name
        assert row["patternProperties"] == {"^x-": {}}, name
        assert all(value.get("description") for value in row["properties"].values()), name
    assert rows["CudaRow"]["properties"]["archs"]["anyOf"][0] == {"type": ["string", "number"]}
    assert rows["VariantRow"]["required"] == ["fork", "commit", "image", "tag"]
