// How a stand-in for libamdhip64 makes a function visible under its HIP name.
#pragma once

#define HIP_EXPORT extern "C" __attribute__((visibility("default")))
