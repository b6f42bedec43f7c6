"""`image_folder_input_fn`: folders, pictures, and random changes of them."""
