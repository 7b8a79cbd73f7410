"""The canary attack on the real engine: what an attacker reaches beside what is proven."""
