/**
 * A hook for React, which is handed in by the application: this package depends on nothing.
 *
 *   import { useSyncExternalStore } from "react";
 *   const useLongtake = hookFor({ useSyncExternalStore });
 *   const { tasks, connection } = useLongtake(client);
 *
 * @typedef {(subscribe: (changed: () => void) => () => void, get: () => any, getOnServer?: () => any) => any} UseStore
 */

/** @param {{useSyncExternalStore: UseStore}} react */
export function hookFor({ useSyncExternalStore }) {
  /** @param {import("./index.js").Longtake} client */
  return function useLongtake(client) {
    const get = () => client.state;
    return useSyncExternalStore(client.subscribe, get, get);
  };
}
