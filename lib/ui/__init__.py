"""The page: one module per tab, `build()` for the layout and `wire()` for the events."""
