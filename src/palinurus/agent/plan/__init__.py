"""From a claimed message to a frozen `RunPlan`: everything a run needs is decided here, once."""
