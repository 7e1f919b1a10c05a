import type { presentConversation } from "../../../resources/watching/traces/conversations/schema.ts";
import type { presentScore, presentSummary, presentTrace } from "../../../resources/watching/traces/schema.ts";

export type TraceSummary = ReturnType<typeof presentSummary>;
export type Trace = ReturnType<typeof presentTrace>;
export type Span = Trace["spans"][number];
export type Score = ReturnType<typeof presentScore>;
export type Conversation = ReturnType<typeof presentConversation>;
export type WholeConversation = Conversation & { traces: Trace[]; has_more: boolean };
export type { TraceFacets } from "../../../resources/watching/traces/schema.ts";
