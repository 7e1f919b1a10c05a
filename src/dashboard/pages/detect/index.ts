import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [
  {
    path: "/detect",
    title: "Detect",
    load: () => import("./detect.tsx"),
    nav: { group: "Serve", icon: "detect" },
    area: "detect",
    jump: "e",
  },
  { path: "/detect/:id", title: "Detection", load: () => import("./stored.tsx"), area: "detect" },
];
