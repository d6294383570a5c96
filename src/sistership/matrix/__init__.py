"""What the user wrote: the matrix and the inventory."""
