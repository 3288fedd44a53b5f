"""`waybill doctor`: looks at everything that the service needs of its surroundings, and says what to do."""
