"""From the events of a run to what people see: replies made, queued on disk, delivered once."""
