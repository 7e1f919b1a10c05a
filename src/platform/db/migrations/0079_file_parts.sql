-- Uploads of files in parts, in the format of OpenAI. target_id is the id of the file that the parts become.
ALTER TABLE uploads ADD COLUMN file_purpose TEXT;
ALTER TABLE uploads ADD COLUMN file_lifetime_ms INTEGER; -- null: the file stays until it is deleted

-- Parts of files count as files. Parts of volumes have their own reservation.
CREATE TRIGGER upload_parts_usage_insert AFTER INSERT ON upload_parts BEGIN
  INSERT INTO storage_usage SELECT workspace_id, 'files', NEW.size_bytes FROM uploads
    WHERE id = NEW.upload_id AND purpose = 'file'
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER upload_parts_usage_delete AFTER DELETE ON upload_parts BEGIN
  INSERT INTO storage_usage SELECT workspace_id, 'files', -OLD.size_bytes FROM uploads
    WHERE id = OLD.upload_id AND purpose = 'file'
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
