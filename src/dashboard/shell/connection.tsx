import { connection } from "../data/events.ts";

/** Visible only while the live connection is lost. It heals by itself. */
export const ConnectionNote = () =>
  connection.value === "lost" ? (
    <div class="lost" role="status">
      The connection to the server is lost. What you see may be old; the page reconnects by itself.
    </div>
  ) : null;
