"""How a request is written: each field says its type, check, default, help and place on the form once."""
