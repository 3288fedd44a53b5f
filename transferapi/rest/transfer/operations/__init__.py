"""Operations on an endpoint that are done at once: views and documents."""
