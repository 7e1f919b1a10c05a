/** Requests to a supervisor: files of its server, which may be away, and signals of a scheduler. */
import { existsSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SECOND_MS } from "../../lib/units.ts";

type Handlers = {
  save: () => void;
  stop: () => void;
  /** SIGTERM: the node is taken back. */
  takeBack: () => void;
  /** SIGHUP: the time limit is near. */
  timeIsUp: () => void;
};

const BEAT_MS = SECOND_MS / 4;

/** Each file counts once. The heartbeat shows that the supervisor lives. Returns the function that ends it. */
export function watchRequests(dir: string, { save, stop, takeBack, timeIsUp }: Handlers): () => void {
  const seen = { save: false, stop: false };
  const beat = setInterval(() => {
    touch(join(dir, "heartbeat"));
    if (!seen.stop && existsSync(join(dir, "stop"))) {
      seen.stop = true;
      stop();
    } else if (!seen.save && existsSync(join(dir, "save"))) {
      seen.save = true;
      save();
    }
  }, BEAT_MS);
  process.on("SIGTERM", takeBack);
  process.on("SIGHUP", timeIsUp);
  return () => {
    clearInterval(beat);
    process.off("SIGTERM", takeBack);
    process.off("SIGHUP", timeIsUp);
  };
}

function touch(path: string) {
  const now = new Date();
  try {
    utimesSync(path, now, now);
  } catch {
    writeFileSync(path, "", { mode: 0o600 });
  }
}
