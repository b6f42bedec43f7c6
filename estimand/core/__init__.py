"""Words all other layers share: modes, errors, configuration, specs. Imports no other layer."""
