"""An OAuth server that gives certificates, as sites have them beside their endpoints: django-oauth-toolkit with a
`getcert` resource as OA4MP has it. A Django project of its own, in a process of its own."""
