"""Tasks and their forecasts: views and documents."""
