/* SPDX-License-Identifier: Apache-2.0 */
/* What modinfo reads of nvidia.ko; compiled to an object file, whose vermagic is filled in on the host (load.c). */
#define INFO(name, text) __attribute__((section(".modinfo"), used)) static const char name[] = text

INFO(license, "license=" LICENSE);
INFO(description, "description=simulated NVIDIA driver: for modinfo only");
INFO(version, "version=" DRIVER_VERSION);
INFO(name, "name=nvidia");
INFO(vermagic, "vermagic=@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@");
