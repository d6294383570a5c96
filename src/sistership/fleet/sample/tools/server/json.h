#pragma once

#include <map>
#include <string>

// A string is decoded (UTF-8); everything else stays as it is written.
struct json_value {
    bool        is_string;
    std::string text;
};

using json_object = std::map<std::string, json_value>;

// Reads an object; of two members with one name the later counts. Returns false when `text` is anything else (RFC 8259).
bool json_read(const std::string & text, json_object & object);

// `text` as a JSON string, with its quotes.
std::string json_quote(const std::string & text);
