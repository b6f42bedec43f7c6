"""Model functions that run eagerly, step by step: what v1 code is lent so that it can."""
