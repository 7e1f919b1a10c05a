import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [
  {
    path: "/webhooks",
    title: "Webhooks",
    load: () => import("./list.tsx"),
    nav: { group: "Manage", icon: "webhooks" },
    area: "account",
    jump: "o",
  },
  { path: "/webhooks/:id", title: "Webhook endpoint", load: () => import("./endpoint.tsx"), area: "account" },
];
