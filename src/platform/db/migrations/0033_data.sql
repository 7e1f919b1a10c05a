-- The file and the shape of an upload, as JSON.
ALTER TABLE datasets ADD COLUMN detected TEXT;
