"""The pages in a real browser: how soon each is painted, and how a listing of 100,000 entries behaves."""
