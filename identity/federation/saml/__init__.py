"""SAML 2.0: this service as a service provider (Web Browser SSO Profile), for Shibboleth and others (decision 0060)."""
