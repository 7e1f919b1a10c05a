-- Sums of a queue: items by status, and the counts behind the agreement of its annotators. Each is kept in the commit of
-- its change, so that no request counts items. `label` is empty for sums of the whole queue.
CREATE TABLE annotation_sums (
  queue_id TEXT NOT NULL, -- sums of a deleted queue go in small commits
  label    TEXT NOT NULL,
  kind     TEXT NOT NULL,
  a        TEXT NOT NULL,
  b        TEXT NOT NULL,
  n        INTEGER NOT NULL,
  PRIMARY KEY (queue_id, label, kind, a, b)
) STRICT, WITHOUT ROWID;

-- Items up to this id are in the sums of annotations. Items of older versions are added when the agreement is read.
ALTER TABLE annotation_queues ADD COLUMN summed_until TEXT NOT NULL DEFAULT '';

INSERT INTO annotation_sums SELECT queue_id, '', 'status', status, '', count(*) FROM annotation_items
  WHERE queue_id IN (SELECT id FROM annotation_queues) GROUP BY queue_id, status;
CREATE TRIGGER annotation_items_sum_insert AFTER INSERT ON annotation_items BEGIN
  INSERT INTO annotation_sums VALUES (NEW.queue_id, '', 'status', NEW.status, '', 1)
    ON CONFLICT DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER annotation_items_sum_update AFTER UPDATE OF status ON annotation_items WHEN NEW.status <> OLD.status BEGIN
  UPDATE annotation_sums SET n = n - 1
    WHERE queue_id = OLD.queue_id AND label = '' AND kind = 'status' AND a = OLD.status AND b = '';
  INSERT INTO annotation_sums SELECT id, '', 'status', NEW.status, '', 1 FROM annotation_queues WHERE id = NEW.queue_id
    ON CONFLICT DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER annotation_items_sum_delete AFTER DELETE ON annotation_items BEGIN
  UPDATE annotation_sums SET n = n - 1
    WHERE queue_id = OLD.queue_id AND label = '' AND kind = 'status' AND a = OLD.status AND b = '';
END;
