"""The base of all APIs: authentication, bodies in JSON and XML, errors, rate limits, and trusted proxies."""
