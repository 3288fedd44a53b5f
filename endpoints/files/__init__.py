"""Files and long listings, which pass through the service while a client takes or gives them."""
