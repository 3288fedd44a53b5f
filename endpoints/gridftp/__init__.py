"""The GridFTP protocol: pure state machines, thin asyncio around them, and a server of our own. No Django."""
