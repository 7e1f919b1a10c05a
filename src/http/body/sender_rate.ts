import { AppError } from "../../lib/errors.ts";
import { MINUTE_MS } from "../../lib/units.ts";

type Options = {
  bytesPerSecond: number;
  /** Time over which the rate is measured. */
  windowMs?: number;
  /** The longest pause. */
  silenceMs?: number;
  fail: (error: AppError) => void;
};

/**
 * Watches the sender of a body that may take as long as it needs. Calls `fail` if the sender is silent, or slower than
 * `bytesPerSecond` on average. Only the time in which the server waits for the sender counts.
 */
export function watchSender({ bytesPerSecond, windowMs = MINUTE_MS, silenceMs = MINUTE_MS, fail }: Options) {
  let bytes = 0;
  let waitedMs = 0;
  let since = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const pausedMs = () => performance.now() - since;
  const listen = () => {
    timer = setTimeout(check, Math.max(1, Math.min(silenceMs - pausedMs(), windowMs - waitedMs - pausedMs())));
  };
  const check = () => {
    if (pausedMs() >= silenceMs - 1) return fail(silent(silenceMs));
    if (waitedMs + pausedMs() >= windowMs - 1) {
      if (bytes < (bytesPerSecond * windowMs) / 1000) return fail(tooSlow(bytes, windowMs));
      bytes = 0;
      waitedMs = -pausedMs(); // this pause began in the last window
    }
    listen();
  };
  const end = () => clearTimeout(timer);
  return {
    /** The next piece is awaited from now on. */
    wait() {
      since = performance.now();
      listen();
    },
    arrived(count: number) {
      end();
      waitedMs += pausedMs();
      bytes += count;
    },
    end,
  };
}

const cutOff = (message: string) => new AppError("upload_incomplete", message, { headers: { connection: "close" } });
const silent = (ms: number) => cutOff(`Nothing came for ${ms / 1000} seconds: send the file again`);
const tooSlow = (bytes: number, ms: number) =>
  cutOff(
    `Only ${bytes} bytes came in ${ms / 1000} seconds, less than http.min_upload_bytes_per_second: send the file again on a faster connection`,
  );
