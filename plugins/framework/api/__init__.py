"""Read-only views of the objects that Stationmaster meets. Edits go through a Draft, never through a view."""
