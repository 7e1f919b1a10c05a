import type { NewTrace } from "./new_trace.ts";
import type { Redactor } from "./redaction/redact.ts";

declare module "../../../context.ts" {
  interface State {
    readonly traces: TracesState;
  }
}

/** Traces that are not stored yet, and what their redaction needs. */
export class TracesState {
  readonly buffer: { trace: NewTrace; createdAt: number }[] = [];
  bufferedBytes = 0;
  /** A flush is due. */
  scheduled = false;
  /** The patterns of a deployment → its redactor. */
  readonly redactors = new Map<string, Redactor>();
  /** Workspace → the values of its secrets; `sealed` says which ones they are. Valid in this generation of the database. */
  readonly secrets = new Map<string, { generation: number; sealed: string; forms: readonly string[] }>();
}
