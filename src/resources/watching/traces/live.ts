import type { NewTrace } from "./new_trace.ts";
import type { Redactor } from "./redact.ts";

declare module "../../../context.ts" {
  interface State {
    readonly traces: TracesState;
  }
}

const MAX_BUFFERED = { traces: 10_000, bytes: 64 * 1024 * 1024 };
const MOST_OF_WORKSPACE = 0.5; // of what all of them may buffer

type Buffered = { trace: NewTrace; createdAt: number };
type Amount = { traces: number; bytes: number };

/** Traces that are not stored yet. A workspace can fill only its own part. */
class TraceBuffer {
  readonly #lists = new Map<string, { waiting: Buffered[]; held: Amount }>();
  readonly #held: Amount = { traces: 0, bytes: 0 };

  /** False: there is no room. */
  add(trace: NewTrace, createdAt: number): boolean {
    const { workspaceId, bytes = 0 } = trace;
    const list = this.#lists.get(workspaceId) ?? { waiting: [], held: { traces: 0, bytes: 0 } };
    if (!hasRoom(list.held, bytes, MOST_OF_WORKSPACE) || !hasRoom(this.#held, bytes, 1)) return false;
    list.waiting.push({ trace, createdAt });
    this.#lists.set(workspaceId, list);
    for (const held of [list.held, this.#held]) count(held, 1, bytes);
    return true;
  }

  /** The traces of the workspace, the oldest first, until the caller has enough. */
  *take(workspaceId: string): Generator<Buffered> {
    const list = this.#lists.get(workspaceId);
    let taken = 0;
    try {
      for (const buffered of list?.waiting ?? []) {
        taken++;
        for (const held of [list!.held, this.#held]) count(held, -1, -(buffered.trace.bytes ?? 0));
        yield buffered;
      }
    } finally {
      list?.waiting.splice(0, taken);
      if (list?.waiting.length === 0) this.#lists.delete(workspaceId);
    }
  }

  hasOf = (workspaceId: string): boolean => this.#lists.has(workspaceId);

  /** Workspaces that have traces here. */
  workspaces = (): string[] => [...this.#lists.keys()];

  get size(): number {
    return this.#held.traces;
  }
}

const hasRoom = ({ traces, bytes }: Amount, more: number, part: number) =>
  traces < MAX_BUFFERED.traces * part && bytes + more <= MAX_BUFFERED.bytes * part;

function count(amount: Amount, traces: number, bytes: number) {
  amount.traces += traces;
  amount.bytes += bytes;
}

/** Traces that are not stored yet, and what their redaction needs. */
export class TracesState {
  readonly buffer = new TraceBuffer();
  /** A flush is due. */
  scheduled = false;
  /** The patterns of a deployment → its redactor. */
  readonly redactors = new Map<string, Redactor>();
  /** Workspace → the values of its secrets; `sealed` says which ones they are. Valid in this generation of the database. */
  readonly secrets = new Map<string, { generation: number; sealed: string; forms: readonly string[] }>();
}
