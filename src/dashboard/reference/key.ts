/** How "Try it" is allowed to call the server. */
import { signal } from "@preact/signals";

/** The key of the top bar. It stays in this tab, and is stored nowhere. */
export const apiKey = signal("");

/** The dashboard's session works here too. Its own cookie is out of reach; this one only says that it exists. */
export const isSignedIn = () => document.cookie.includes("verk_signed_in=1");
