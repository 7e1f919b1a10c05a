/**
 * The specification's words over what happened to one seed: nothing here is taken from the code that is judged. Events,
 * requests, answers, crashes and enablings are what the outside saw; the rows are compared with what follows from them.
 * A wait counts from the end of the failed attempt: an attempt may last 10 s, which is longer than the first wait.
 */
import type { EventRow } from "../src/events/table.ts";
import type { AttemptRow, DeliveryRow, EndpointRow } from "../src/resources/watching/webhooks/table.ts";
import { type Answer, HOUR, MINUTE, SECOND, type Seed } from "./webhooks_seed.ts";

const WAITS = [5 * SECOND, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, 12 * HOUR]; // the last one repeats
const WINDOW = 72 * HOUR;
const OFF_MS = SECOND; // that an attempt may be late
const ROUNDED_MS = 1;
const HELD_OFF_MS = 2 * SECOND; // that the end of a delivery may be late whose endpoint is disabled

/** A request that reached a receiver; the process may have died before it wrote the answer down. */
export type Sent = Answer & {
  endpointId: string;
  eventId: string;
  body: Uint8Array;
  startedAt: number;
  endsAt: number;
  beganStep: number;
  /** Undefined: the process did not live to be answered. */
  endedStep?: number;
};
export type Happened = { id: string; subject: string; at: number; step: number };
export type Enabled = { endpointId: string; at: number; step: number };
/** While the process lived. */
export type Up = { from: number; to: number };
export type Observations = {
  up: readonly Up[];
  sent: ReadonlyMap<string, readonly Sent[]>; // by endpoint, as are the next ones
  enabled: ReadonlyMap<string, readonly Enabled[]>;
  deliveries: ReadonlyMap<string, readonly DeliveryRow[]>;
  attempts: ReadonlyMap<string, readonly AttemptRow[]>; // by delivery
  endpoints: ReadonlyMap<string, EndpointRow>;
  happened: ReadonlyMap<string, Happened>; // by subject
  events: ReadonlyMap<string, readonly EventRow[]>; // by subject
  count: (what: string) => void;
  /** A jittered wait, in parts of what the schedule says. */
  jitter: (ratio: number) => void;
};

type Verdict = "pending" | "succeeded" | "failed";
/** A delivery as it follows from what happened. */
type Course = {
  row: DeliveryRow;
  sent: readonly Sent[];
  recorded: ReadonlyMap<Sent, AttemptRow>;
  verdict: Verdict;
  endStep: number;
};

function must(holds: boolean, what: string, ...facts: readonly unknown[]): asserts holds {
  if (!holds) throw new Error(`${what}: ${facts.map((fact) => JSON.stringify(fact)).join(" ")}`);
}
const isGood = ({ status }: Sent) => status !== null && status >= 200 && status <= 299;

export function judgeSeed(seed: Seed, seen: Observations): void {
  const planned = seed.deeds.flatMap((deed) => (deed.does === "event" ? [deed.subject] : []));
  const events = planned.map((subject) => {
    const [rows, told] = [seen.events.get(subject) ?? [], seen.happened.get(subject)];
    must(rows.length === 1 && rows[0]!.id === told?.id, "an event has one row, its own", subject, rows, told);
    return told;
  });
  for (const endpointId of seed.endpoints) judgeEndpoint(endpointId, events, seen);
}

function judgeEndpoint(id: string, events: readonly Happened[], seen: Observations) {
  const rows = seen.deliveries.get(id) ?? [];
  const sent = Map.groupBy(seen.sent.get(id) ?? [], ({ eventId }) => eventId);
  const courses = new Map(rows.map((row) => [row.eventId, courseOf(row, sent.get(row.eventId) ?? [], seen)]));
  must(courses.size === rows.length, "an event has one delivery to an endpoint", id, rows.length);
  for (const eventId of sent.keys()) must(courses.has(eventId), "what is sent has its row", id, eventId);
  const closed = replay(id, courses, seen);
  for (const event of events) {
    const course = courses.get(event.id);
    const isFor = !closed.some(({ from, to }) => event.step > from.step && event.step < to.step);
    if (isFor) must(course !== undefined, "no event is lost", id, event);
    else if (course) {
      const at = course.row.createdAt; // the endpoint was enabled before the event was read
      must(!closed.some(({ from, to }) => at > from.at && at < to.at), "none while disabled", id, event, course.row);
    }
  }
  const stepOf = new Map(events.map((event) => [event.id, event.step]));
  for (const course of courses.values())
    judgeCourse(course, { closed, madeStep: stepOf.get(course.row.eventId)! }, seen);
}

function courseOf(row: DeliveryRow, sent: readonly Sent[], seen: Observations): Course {
  const attempts = seen.attempts.get(row.id) ?? [];
  const recorded = new Map<Sent, AttemptRow>();
  for (const [i, attempt] of attempts.entries()) {
    const of = sent.find(({ startedAt }) => startedAt === attempt.attemptedAt);
    must(of?.endedStep !== undefined, "an attempt in the rows is a request that was answered", attempt);
    const { number, durationMs, responseCode, errorCode } = attempt;
    must(number === i + 1 && durationMs === of.endsAt - of.startedAt, "number and duration", attempt, of.lastsMs);
    must(responseCode === of.status && errorCode === of.error, "the answer is as it was", attempt, of.status, of.error);
    recorded.set(of, attempt);
  }
  must(recorded.size === attempts.length, "no attempt is there twice", row.id);
  const counts = [row.attemptCount, row.scheduledCount];
  must(counts[0] === attempts.length && counts[1] === attempts.length, "its counts", row.id, counts, attempts.length);
  return { row, sent, recorded, verdict: "pending", endStep: Infinity };
}

type Moment = { at: number; step: number };
type Closed = { from: Moment; to: Moment };
const NEVER: Moment = { at: Infinity, step: Infinity };

/**
 * Answers that were written down and enablings, in their order: what becomes of the endpoint and its deliveries. A
 * delivery counts once toward the fifty, at its first failed attempt.
 */
function replay(id: string, courses: ReadonlyMap<string, Course>, seen: Observations): Closed[] {
  const closed: Closed[] = [];
  let failures = 0;
  const isClosed = () => closed.at(-1)?.to === NEVER;
  const ends = [...courses.values()].flatMap((course) =>
    [...course.recorded.keys()].map((sent) => ({ sent, course, at: sent.endsAt, step: sent.endedStep! })),
  );
  const enablings = (seen.enabled.get(id) ?? []).map((each) => ({ ...each, sent: undefined, course: undefined }));
  for (const each of [...ends, ...enablings].sort((a, b) => a.step - b.step)) {
    const { sent, course, at, step } = each;
    if (!sent) {
      closed.at(-1)!.to = { at, step };
      failures = 0;
      seen.count("enabled again");
      continue;
    }
    const isGone = sent.status === 410;
    const isFirst = course.recorded.keys().next().value === sent;
    failures = isGood(sent) ? 0 : failures + (isFirst ? 1 : 0);
    if (isGood(sent)) settle(course, "succeeded", step);
    else if (isGone && course.verdict === "pending") settle(course, "failed", step);
    if (isClosed() || isGood(sent) || !(isGone || (isFirst && failures === 50))) continue;
    closed.push({ from: { at, step }, to: NEVER });
    seen.count(isGone ? "disabled by 410" : "disabled by fifty");
  }
  judgeCounter(id, { failures, closed }, seen);
  return closed;
}

function settle(course: Course, verdict: Verdict, step: number) {
  course.verdict = verdict;
  course.endStep = Math.min(course.endStep, step);
}

function judgeCounter(
  id: string,
  { failures, closed }: { failures: number; closed: readonly Closed[] },
  seen: Observations,
) {
  const row = seen.endpoints.get(id)!;
  const last = closed.at(-1);
  const disabledAt = last?.to === NEVER ? last.from.at : null;
  must(row.consecutiveFailures === failures, "consecutive failures", id, row.consecutiveFailures, failures);
  must(row.disabledAt === disabledAt, "when it was disabled", id, row.disabledAt, disabledAt);
  must(row.status === (disabledAt === null ? "enabled" : "disabled"), "its status", id, row.status);
  const told = (seen.events.get(id) ?? []).filter(({ type }) => type === "webhook_endpoint.disabled");
  must(told.length === closed.length, "each disabling is one event", id, told.length, closed.length);
}

/** `madeStep`: when the event happened. */
type Around = { closed: readonly Closed[]; madeStep: number };

function judgeCourse(course: Course, around: Around, seen: Observations) {
  const { row, sent, recorded, verdict, endStep } = course;
  const expiry = row.eventCreatedAt + WINDOW;
  must(row.dueAt === null && row.resendAt === null, "nothing is left to do", row);
  must(row.status === (verdict === "pending" ? "exhausted" : verdict), "its status", row, verdict);
  let base: Sent | undefined;
  let made = 0;
  let after = 0; // what was cut off is made again after the restart
  for (const [i, each] of sent.entries()) {
    const { earliest, latest, isResumed } = nextOf(row, { base, made, after, step: each.beganStep }, around, seen);
    const by = deadline(Math.max(latest, after), seen.up);
    if (isResumed) seen.count("resumed");
    must(each.startedAt >= earliest, "not before its time", row, each.startedAt, earliest);
    must(each.startedAt <= by, "within a second of its time", row, each.startedAt, by);
    must(each.startedAt < expiry && each.beganStep < endStep, "not after its end", row, each.startedAt, endStep);
    const isOff = around.closed.some(({ from, to }) => each.beganStep > from.step && each.beganStep < to.step);
    must(!isOff, "nothing is sent while disabled", row, each.startedAt);
    must(each.body.length > 0 && Buffer.compare(each.body, sent[0]!.body) === 0, "the same bytes each time", row.id);
    if (
      !isResumed &&
      made >= 2 &&
      base!.asks === null &&
      i > 0 &&
      recorded.has(sent[i - 1]!) &&
      each.startedAt <= latest + OFF_MS
    )
      seen.jitter((each.startedAt - base!.endsAt) / WAITS[Math.min(made, WAITS.length) - 1]!);
    const death = seen.up.find(({ from, to }) => from <= each.startedAt && each.startedAt <= to)!.to;
    if (recorded.has(each)) {
      must(death >= each.endsAt, "the dead write nothing", row, each.endsAt, death);
      [base, made] = [each, made + 1];
    } else {
      must(death <= each.endsAt, "what was answered is written down", row, each.startedAt);
      after = death + ROUNDED_MS;
      seen.count("cut off");
    }
  }
  if (verdict === "pending") {
    const { latest } = nextOf(row, { base, made, after, step: Infinity }, around, seen);
    const by = deadline(Math.max(latest, after), seen.up);
    must(by >= expiry, "no attempt is missing", row, by);
    const ends = Math.max(expiry, base?.endsAt ?? 0);
    const isHeld = around.closed.some(({ from, to }) => from.at <= expiry && expiry <= to.at);
    const last = deadline(ends, seen.up, isHeld ? HELD_OFF_MS : OFF_MS);
    must(row.updatedAt >= expiry && row.updatedAt <= last, "exhausted in time", row, ends);
    if (isHeld) seen.count("exhausted while disabled");
  }
  must(row.lastResponseCode === (base?.status ?? null), "its last answer", row, base?.status);
  seen.count(row.status);
  if (made >= 11) seen.count("all of the schedule");
}

type Next = { base: Sent | undefined; made: number; after: number; step: number };

/**
 * When the attempt that began at `step` was due: by the schedule, or at once when its endpoint was enabled again after
 * the last attempt.
 */
function nextOf(row: DeliveryRow, { base, made, after, step }: Next, { closed, madeStep }: Around, seen: Observations) {
  let [earliest, latest] = allowed(row, base, made);
  let isResumed = false;
  for (const { from, to } of closed) {
    if (to.step < (base?.endedStep ?? madeStep) || from.step > step) continue;
    const by = deadline(Math.max(latest, after), seen.up);
    const late = Math.min(from.at, row.eventCreatedAt + WINDOW); // after 72 hours nothing is due
    must(by >= late, "no attempt is missing before it was disabled", row, by, from.at);
    [earliest, latest, isResumed] = [to.at, to.at, true];
  }
  return { earliest, latest, isResumed };
}

/** [earliest, latest] of the attempt after the `made`-th, which was `last`; as if the process were always up. */
function allowed(row: DeliveryRow, last: Sent | undefined, made: number): [number, number] {
  if (!last) return [row.eventCreatedAt, row.eventCreatedAt];
  const wait = WAITS[Math.min(made, WAITS.length) - 1]!;
  const spread = made < 2 ? 0 : wait / 10 + ROUNDED_MS; // the first two attempts have no jitter
  const lastCall = row.eventCreatedAt + WINDOW - MINUTE; // what is requestedAt for never costs the last attempt
  const requestedAt = Math.min(last.endsAt + Math.min(last.askedMs, 2 * wait), lastCall);
  return [Math.max(last.endsAt + wait - spread, requestedAt), Math.max(last.endsAt + wait + spread, requestedAt)];
}

/** By when something due must have begun: within a second of up-time. */
function deadline(due: number, up: readonly Up[], offMs = OFF_MS): number {
  for (const { from, to } of up) {
    const by = Math.max(due, from) + offMs;
    if (to >= by) return by;
  }
  return Infinity;
}
