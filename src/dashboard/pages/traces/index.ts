import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [
  {
    path: "/traces",
    title: "Traces",
    load: () => import("./list.tsx"),
    nav: { group: "Serve", icon: "traces" },
    area: "inference",
    jump: "t",
  },
  { path: "/traces/:id", title: "Trace", load: () => import("./trace.tsx"), area: "inference" },
  { path: "/conversations", title: "Conversations", load: () => import("./conversations.tsx"), area: "inference" },
  { path: "/conversations/:id", title: "Conversation", load: () => import("./conversation.tsx"), area: "inference" },
];
