"""The wire to the models: one request in, one stream of model events out."""
