"""Shows results to people: tables, plots and reports."""
