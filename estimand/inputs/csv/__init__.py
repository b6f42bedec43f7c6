"""`csv_input_fn`: columns, files, and where a file is broken."""
