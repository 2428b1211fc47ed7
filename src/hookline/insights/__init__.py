"""What control works out from what others write down: time series and the schemas of sources (``insights.db``)."""
