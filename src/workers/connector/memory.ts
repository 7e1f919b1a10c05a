import { SourceError } from "./types.ts";

const WATCH_MS = 100;

/** Rejects when this process grows beyond `limit`. The process ends with its task in any case. */
export function memoryRanOut(limit: number): Promise<never> {
  return new Promise((_, reject) => {
    setInterval(() => {
      if (process.memoryUsage.rss() < limit) return;
      reject(
        new SourceError(
          "invalid_rows",
          `The source's data takes more than ${limit} bytes of memory at once. Use smaller rows`,
        ),
      );
    }, WATCH_MS).unref();
  });
}
