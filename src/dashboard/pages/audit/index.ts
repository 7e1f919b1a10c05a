import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [
  {
    path: "/audit",
    title: "Audit log",
    load: () => import("./audit.tsx"),
    nav: { group: "Manage", icon: "audit" },
    area: "account",
    jump: "l",
  },
];
