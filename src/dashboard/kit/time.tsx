import { signal } from "@preact/signals";
import { ago, duration, exactTime, NONE } from "../data/format.ts";

/** All times on the page move together, from `startClock` on. */
export const now = signal(Date.now());

export function startClock() {
  setInterval(() => {
    if (!document.hidden) now.value = Date.now();
  }, 1_000);
}

/** "8 min ago", with the exact time on hover. */
export const Time = ({ at }: { at: string | null | undefined }) =>
  at ? (
    <time dateTime={at} title={exactTime(at)}>
      {ago(at, now.value)}
    </time>
  ) : (
    <span>{NONE}</span>
  );

/** How long something took or takes. `until` null: it goes on. */
export const Elapsed = ({ since, until }: { since: string; until: string | null }) => (
  <span class="n">{duration(Math.max(0, (until ? Date.parse(until) : now.value) - Date.parse(since)) / 1000)}</span>
);
