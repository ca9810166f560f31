"""One law per file: plain quantities in, plain quantities out."""
