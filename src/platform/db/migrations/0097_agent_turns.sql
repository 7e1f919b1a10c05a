-- Turns of a chat with an agent whose tools this server calls; null for the default.
ALTER TABLE agents ADD COLUMN max_turns INTEGER;
