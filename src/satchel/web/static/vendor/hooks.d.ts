export function useState<T>(initial: T): [T, (next: T | ((last: T) => T)) => void];
export function useEffect(effect: () => void | undefined | (() => void), changes?: unknown[]): void;
export function useLayoutEffect(effect: () => void | undefined | (() => void), changes?: unknown[]): void;
export function useMemo<T>(make: () => T, changes: unknown[]): T;
export function useRef<T>(initial: T): { current: T };
