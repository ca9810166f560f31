"""Numbers to words, rows, cards and charts: all rounding and wording, nothing else."""
