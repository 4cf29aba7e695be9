"""What people see: tables, plots and reports."""
