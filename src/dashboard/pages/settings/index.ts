import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [
  {
    path: "/settings",
    title: "Settings",
    load: () => import("./settings.tsx"),
    nav: { group: "Manage", icon: "settings" },
    area: "admin",
    jump: "s",
  },
];
