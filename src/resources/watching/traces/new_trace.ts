import type { Capture, Span, TraceRow } from "./table.ts";

type Optional =
  | "deploymentId"
  | "jobId"
  | "step"
  | "keyId"
  | "model"
  | "adapter"
  | "agentId"
  | "agentVersion"
  | "externalId";
type Counted = "errorCode" | "ttftMs" | "promptTokens" | "cachedTokens" | "completionTokens" | "costMicros";

/** A request that has ended. `capture` decides how much of it is stored. */
export type NewTrace = Pick<TraceRow, "workspaceId" | "source" | "status" | "startedAt" | "durationMs"> &
  Partial<Pick<TraceRow, Optional | Counted>> & {
    /** Default: a new id. */
    id?: string;
    capture: Capture;
    /** Patterns of the deployment, beside the built-in ones. */
    redact?: readonly string[];
    spans: readonly Span[];
    conversationId?: string | null | undefined;
    /** Default: `user_id` or `user` of the metadata. */
    user?: string | null | undefined;
    metadata?: Readonly<Record<string, unknown>> | null | undefined;
    parameters?: Readonly<Record<string, unknown>> | null | undefined;
    /** Read when the trace is stored, not in the request. Undefined: there is more content than a trace may keep. */
    content?: (() => Content | undefined) | undefined;
    /** About the size of the content in memory. */
    bytes?: number;
  };

/** `toolCalls`: the names of the tools that the answer calls. */
export type Content = { input: unknown; output: unknown; toolCalls?: readonly string[] };
