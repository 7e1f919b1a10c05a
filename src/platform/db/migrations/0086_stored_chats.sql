-- Conversations and chat completions in the format of OpenAI. Their bytes and those of responses count for one quota.
CREATE TABLE client_conversations (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name TEXT,
  metadata TEXT NOT NULL,
  item_count INTEGER NOT NULL,
  item_bytes INTEGER NOT NULL,
  removed_at INTEGER, -- removed for callers; its items go in small commits
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX client_conversations_workspace ON client_conversations (workspace_id, created_at, id)
  WHERE removed_at IS NULL;
CREATE INDEX client_conversations_age ON client_conversations (updated_at) WHERE removed_at IS NULL;
CREATE INDEX client_conversations_removed ON client_conversations (removed_at) WHERE removed_at IS NOT NULL;

CREATE TABLE client_items (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  conversation_id TEXT NOT NULL REFERENCES client_conversations (id),
  position INTEGER NOT NULL,
  parent_id TEXT,
  model TEXT,
  created_at INTEGER NOT NULL,
  item TEXT NOT NULL
) STRICT;
CREATE INDEX client_items_order ON client_items (conversation_id, position, id, parent_id);

CREATE TABLE client_completions (
  id TEXT NOT NULL,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  model TEXT NOT NULL,
  metadata TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  messages TEXT NOT NULL,
  completion TEXT NOT NULL,
  PRIMARY KEY (workspace_id, id)
) STRICT;
CREATE INDEX client_completions_workspace ON client_completions (workspace_id, created_at, id);
CREATE INDEX client_completions_age ON client_completions (created_at);

INSERT INTO storage_usage
  SELECT workspace_id, 'chats', sum(octet_length(input) + octet_length(response) + coalesce(octet_length(task), 0))
  FROM responses GROUP BY workspace_id;

-- A row counts with its texts, and a part for its other columns.
CREATE TRIGGER responses_usage_insert AFTER INSERT ON responses BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'chats',
    octet_length(NEW.input) + octet_length(NEW.response) + coalesce(octet_length(NEW.task), 0) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER responses_usage_update AFTER UPDATE OF input, response, task ON responses BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'chats',
    (octet_length(NEW.input) + octet_length(NEW.response) + coalesce(octet_length(NEW.task), 0)) - (octet_length(OLD.input) + octet_length(OLD.response) + coalesce(octet_length(OLD.task), 0)) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER responses_usage_delete AFTER DELETE ON responses BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'chats',
    -(octet_length(OLD.input) + octet_length(OLD.response) + coalesce(octet_length(OLD.task), 0)) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_conversations_usage_insert AFTER INSERT ON client_conversations BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'chats',
    256 + coalesce(octet_length(NEW.name), 0) + octet_length(NEW.metadata) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_conversations_usage_update AFTER UPDATE OF name, metadata ON client_conversations BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'chats',
    (256 + coalesce(octet_length(NEW.name), 0) + octet_length(NEW.metadata)) - (256 + coalesce(octet_length(OLD.name), 0) + octet_length(OLD.metadata)) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_conversations_usage_delete AFTER DELETE ON client_conversations BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'chats',
    -(256 + coalesce(octet_length(OLD.name), 0) + octet_length(OLD.metadata)) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_items_usage_insert AFTER INSERT ON client_items BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'chats',
    128 + octet_length(NEW.item) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_items_usage_delete AFTER DELETE ON client_items BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'chats',
    -(128 + octet_length(OLD.item)) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_completions_usage_insert AFTER INSERT ON client_completions BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'chats',
    256 + octet_length(NEW.metadata) + octet_length(NEW.messages) + octet_length(NEW.completion) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_completions_usage_update AFTER UPDATE OF metadata ON client_completions BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'chats',
    (256 + octet_length(NEW.metadata) + octet_length(NEW.messages) + octet_length(NEW.completion)) - (256 + octet_length(OLD.metadata) + octet_length(OLD.messages) + octet_length(OLD.completion)) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_completions_usage_delete AFTER DELETE ON client_completions BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'chats',
    -(256 + octet_length(OLD.metadata) + octet_length(OLD.messages) + octet_length(OLD.completion)) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
