"""Beginning with the values of another model's checkpoint or SavedModel."""
